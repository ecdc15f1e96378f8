"""Makes the Helm chart and the files for `kubectl apply -f` from the kustomize manifests; nothing is written twice.

    python -m tools.chart --version 0.1.0       writes dist/zonewise-0.1.0.tgz and dist/install*.yaml

Each component of kustomize is a switch in the chart's values. A component that is added to manifests/ comes along.

- renderings.py asks kustomize for the objects with and without each component.
- guards.py compares these, and finds the condition under which each field is present.
- templates.py writes the fields with their conditions as Helm templates.
"""
