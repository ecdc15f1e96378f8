"""All nodes as arrays, and the reasons why they reject a pod. The caller holds the judging lock."""
