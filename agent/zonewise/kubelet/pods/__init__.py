"""The kubelet's Pods API: a stream that tells when a pod comes or goes."""
