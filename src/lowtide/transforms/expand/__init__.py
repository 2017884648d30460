"""Operations written as simpler ones, one family in each file."""
