"""Everything that chapter 04 adds to the package."""
