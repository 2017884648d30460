"""HLO text: lexer, parser, and errors that show the place."""

from lowtide.frontend.hlo_text.parser import parse_hlo

__all__ = ["parse_hlo"]
