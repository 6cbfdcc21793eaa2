"""Everything that chapter 09 adds to the package."""
