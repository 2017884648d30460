"""The check of programs for several devices: all of their collectives have to find one another."""

from lowtide.checking.communication.check import CommunicationCheck, check_communication
from lowtide.checking.communication.matching import CommunicationFault

__all__ = ["CommunicationCheck", "CommunicationFault", "check_communication"]
