"""What each verb of the command line does: it reads its options, calls the API and prints."""
