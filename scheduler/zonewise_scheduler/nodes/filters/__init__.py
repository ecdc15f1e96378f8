"""What kube-scheduler knows of a node and asks of it: the filters that need no other system than nodes and pods."""
