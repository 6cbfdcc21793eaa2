"""Everything that chapter 08 brings to the package."""
