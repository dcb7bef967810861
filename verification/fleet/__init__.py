"""Several hosts on one store: each can be stopped, killed or cut off while the others go on."""
