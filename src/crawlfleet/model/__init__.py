"""The data of the fleet: frozen structs without behaviour beyond reading themselves."""
