"""Admission webhooks: pure functions from requests to responses, the handler that serves them, and its certificate.

Rules that expressions can state are in a ValidatingAdmissionPolicy as well (manifests/scheduler/components/controller),
so that they hold while no replica runs. Sources: Kueue's pkg/controller/jobframework/validation.go and
pkg/controller/jobs/{job,pod}/*_webhook.go.
"""
