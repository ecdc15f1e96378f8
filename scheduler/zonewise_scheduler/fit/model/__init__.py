"""The values that a decision is made of, nodes, pods and verdicts, and the rules of the API that all readers share."""
