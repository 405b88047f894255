"""What things are: frozen structs without behaviour beyond reading themselves."""
