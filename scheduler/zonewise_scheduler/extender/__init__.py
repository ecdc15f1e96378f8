"""The extender of kube-scheduler: watches the cluster, predicts admission, and serves filter, prioritize and bind."""
