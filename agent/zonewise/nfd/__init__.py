"""The agent's readers of Node Feature Discovery's inputs on a node: feature files and the worker's configuration."""
