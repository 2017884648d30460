"""Instructions split into loops over sections."""
