"""Everything that chapter 06 brings to the package."""
