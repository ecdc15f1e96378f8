"""Batch scripts and sbatch's options, and the Jobs that they become."""
