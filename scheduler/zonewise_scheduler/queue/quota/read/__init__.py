"""Objects of kueue.x-k8s.io (v1beta2 and v1beta1) as values, with what is wrong in them told per object."""
