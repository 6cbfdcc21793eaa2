"""Everything that chapter 06 adds to the package."""
