"""Builds the OCI images of the agent and the scheduler without a daemon, from packages pinned by hash in lock files.

    python -m tools.image build --version 0.1.0      writes dist/images/, with an SBOM beside each image
    python -m tools.image lock                       renews the lock of the Debian packages

An image has three layers: Debian's Python with the libraries that it needs, the dependencies in uv.lock, and zonewise.
It contains neither a shell nor a package manager.
"""
