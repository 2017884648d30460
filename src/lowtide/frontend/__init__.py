"""Front ends, from files to modules: HLO, graphs of ONNX and TensorFlow; plans and packings too."""
