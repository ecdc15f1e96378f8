"""The Grafana dashboards as rows of panels; `make dashboards` writes manifests/components/dashboard/*.json."""
