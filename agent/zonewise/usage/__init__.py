"""Who uses what: a machine and what its kubelet says -> what each zone has, can give, and has left."""
