"""Admission checks that the controller itself decides: capacity through ProvisioningRequests of the cluster autoscaler.

All other checks are only read here. Their own controllers set their states.
"""
