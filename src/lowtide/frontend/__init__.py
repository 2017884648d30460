"""Front ends, from what users have to modules: HLO text, HLO protobuf, files of both."""
