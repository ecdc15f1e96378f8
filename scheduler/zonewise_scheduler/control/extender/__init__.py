"""The HTTP extender of kube-scheduler: filter, prioritize, bind."""
