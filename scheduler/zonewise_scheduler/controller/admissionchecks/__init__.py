"""Admission checks that the controller decides itself: capacity by ProvisioningRequests of the cluster autoscaler.

The states of all other checks are set by their own controllers, and only read here.
"""
