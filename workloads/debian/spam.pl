# Judges the messages of a mailbox as spam or ham: rules on headers and body, then naive Bayes
# over words and word pairs, learning as it goes.
#
#     perl spam.pl MAILBOX ROUNDS
#
# Each round reads the mailbox again with what the rounds before it have learnt. Prints how many
# messages were judged rightly (their X-Kind header says what they are) and a digest of all scores.

use strict;

my ($mailbox, $rounds) = @ARGV;
defined $rounds or die "usage: spam.pl MAILBOX ROUNDS\n";

# Each rule: its points, and the part of a message that it reads.
my @rules = (
    [3, subject => qr/^[A-Z !\d]{12,}$/],
    [2, subject => qr/(?:free|offer|win(?:ner)?)\b/i],
    [2, body    => qr{https?://\d+\.\d+\.\d+\.\d+/}],
    [2, body    => qr/\$\s?\d[\d,]*(?:\.\d\d)?\s+(?:free|now|today)/i],
    [1, body    => qr/!{2,}/],
    [1, body    => qr/\b(\w+)\s+\1\b/],
    [1, body    => qr/<a\s+href="[^"]*"[^>]*>\s*click/i],
    [-2, header => qr/^In-Reply-To: <[\w.]+\@[\w.]+>$/m],
    [-1, body   => qr/^> /m],
);

my (%seen, %messages);    # per kind: how often a token was seen, and how many messages
my ($right, $judged, $digest) = (0, 0, 0);

sub decoded {             # quoted-printable
    my ($text) = @_;
    $text =~ s/=\n//g;
    $text =~ s/=([0-9A-F]{2})/chr hex $1/ge;
    return $text;
}

sub tokens {
    my ($subject, $body) = @_;
    $body =~ s/<[^>]*>/ /g;
    my @words = map { lc } "$subject $body" =~ /[A-Za-z\$][\w'-]{2,19}/g;
    my %token;
    $token{$words[$_]}++, $token{"$words[$_ - 1] $words[$_]"}++ for 1 .. $#words;
    return \%token;
}

sub score {
    my ($message, $tokens) = @_;
    my $points = 0;
    for (@rules) {
        my ($worth, $part, $pattern) = @$_;
        $points += $worth if $message->{$part} =~ $pattern;
    }
    my %total = map { $_ => 1 + ($messages{$_} // 0) } qw(spam ham);
    my $odds = 0;
    for my $token (keys %$tokens) {    # a sum of whole numbers: the order does not matter
        my $spam = ($seen{spam}{$token} // 0) * $total{ham};
        my $ham  = ($seen{ham}{$token}  // 0) * $total{spam};
        next unless $spam + $ham;
        $odds += int(1000 * ($spam - $ham) / ($spam + $ham));
    }
    return 1000 * $points + $odds;
}

sub message {
    my ($text) = @_;
    my ($header, $body) = split /\n\n/, $text, 2;
    $header =~ s/\n[ \t]+/ /g;
    my %field = map { /^([\w-]+):\s*(.*)$/ ? (lc $1, $2) : () } split /\n/, $header;
    $body = decoded($body) if ($field{'content-transfer-encoding'} // '') eq 'quoted-printable';
    return {
        header => $header, subject => $field{subject} // '', body => $body,
        kind => $field{'x-kind'},
    };
}

for my $round (1 .. $rounds) {
    open my $file, '<', $mailbox or die "$mailbox: $!\n";
    local $/ = "\nFrom ";
    while (my $text = <$file>) {
        chomp $text;
        my $message = message($text);
        my $tokens  = tokens(@$message{qw(subject body)});
        my $score   = score($message, $tokens);
        my $kind    = $score > 0 ? 'spam' : 'ham';
        $judged++;
        $right++ if $kind eq $message->{kind};
        $digest = ($digest * 31 + $score) % 1_000_003;
        $messages{ $message->{kind} }++;
        $seen{ $message->{kind} }{$_} += $tokens->{$_} for keys %$tokens;
    }
    close $file;
    printf "round %d: %d of %d right, %d tokens, digest %06d\n",
        $round, $right, $judged, keys(%{ $seen{spam} }) + keys(%{ $seen{ham} }), $digest;
}
