"""Many runs from one file: games × algorithms × modes × seeds, each trained and evaluated. No torch in this process."""
