"""Plans for graphs of NNVM, MXNet and Relay: by their own algorithm, and by ours."""
