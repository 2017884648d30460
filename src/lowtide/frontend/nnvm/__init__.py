"""Graph JSON of NNVM, MXNet and the graph executor of Relay."""
