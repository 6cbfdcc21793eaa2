"""Everything that chapter 07 brings to the package."""
