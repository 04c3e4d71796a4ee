"""What a training would do on machines that are not here: predicted from what its pieces cost on this one. No torch in
this process."""
