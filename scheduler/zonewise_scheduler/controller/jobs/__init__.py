"""Adapters that hold, start and stop jobs and detect their end. Each module covers one kind of job."""
