"""The check of programs for several devices: do all of their collectives find one another?"""

from lowtide.checking.communication.check import CommunicationCheck, check_communication
from lowtide.checking.communication.rendezvous import CommunicationFault

__all__ = ["CommunicationCheck", "CommunicationFault", "check_communication"]
