"""Messages of the Pods API v1alpha1, generated from proto/ by tools/generate_proto.py."""
