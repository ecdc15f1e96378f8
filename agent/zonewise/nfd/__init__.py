"""What the agent reads of Node Feature Discovery's inputs on a node: feature files, and the worker's configuration."""
