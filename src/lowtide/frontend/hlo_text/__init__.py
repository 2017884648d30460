"""HLO text: lexer, parser, and errors that show the place."""

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.frontend.hlo_text.sharding_parser import parse_sharding_text

__all__ = ["parse_hlo", "parse_sharding_text"]
