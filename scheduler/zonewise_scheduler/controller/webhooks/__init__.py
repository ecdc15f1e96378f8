"""Admission webhooks: pure functions from requests to responses, the handler that serves them, and its certificate.

Rules that can be written as expressions are also in a ValidatingAdmissionPolicy
(manifests/scheduler/components/controller), so that they apply while no replica runs. Sources: Kueue's
pkg/controller/jobframework/validation.go and pkg/controller/jobs/{job,pod}/*_webhook.go.
"""
