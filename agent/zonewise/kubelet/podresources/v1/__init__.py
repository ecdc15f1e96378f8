"""Messages of the PodResources API v1, generated from proto/ by tools/generate_proto.py."""
