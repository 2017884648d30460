"""TFLite: flatbuffers to models, and models to modules."""
