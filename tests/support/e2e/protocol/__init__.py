"""What the fakes speak with a kubelet: definitions, and code generated from them by tests/e2e/generate.py."""
