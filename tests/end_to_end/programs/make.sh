cat >Makefile <<'END'
all: a b c
	@cat a b c
a b c:
	@sleep 0.01; echo making $@ >$@
below:; @$(MAKE) -s -f below.mk one two
fails:; @exit 3
END
cat >below.mk <<'END'
one two:; @sleep 0.01; echo $(MAKELEVEL) $(shell echo shell)
END
make -j3; make all; make -s -j2 --jobserver-style=fifo below; make fails 2>&1; echo $?
make -j2 -Oline -B a b; touch -d 2001-01-01 a; make -q a; echo $?
