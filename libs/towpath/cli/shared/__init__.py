"""What every command uses: options, output, exit codes, input files, short ids."""
