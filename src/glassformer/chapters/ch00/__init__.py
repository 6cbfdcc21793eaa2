"""Everything that chapter 00 adds to the package."""
