"""All nodes as arrays, and the reasons for which they reject a pod. Who uses them holds the judging lock."""
