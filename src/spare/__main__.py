from spare.cli import main

main()
