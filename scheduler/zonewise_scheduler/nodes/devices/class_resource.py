"""The name of the resource that stands for a DeviceClass."""

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Prefix of resources that name a DeviceClass (pkg/apis/resource ResourceDeviceClassPrefix). No Node has them."""
