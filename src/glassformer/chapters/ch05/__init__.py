"""Everything that chapter 05 brings to the package."""
