"""Generates the Helm chart and the files for `kubectl apply -f` from the kustomize manifests; nothing is written twice.

    python -m tools.chart --version 0.1.0       writes dist/zonewise-0.1.0.tgz and dist/install*.yaml

Each kustomize component becomes a switch in the chart's values, including components that are added to manifests/
later.

- renderings.py lets kustomize render the objects with and without each component.
- guards.py compares the renderings, and finds the condition under which each field is present.
- templates.py writes the fields with their conditions as Helm templates.
"""
